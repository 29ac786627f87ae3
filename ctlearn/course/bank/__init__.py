"""The exercises, a module for each chapter that has some, in its EXERCISES."""
