"""What the book states, and the proof of it: one file a mechanism or topic."""
