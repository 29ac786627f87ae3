"""A language model of one's own: text, contestants, training on one machine or many."""
