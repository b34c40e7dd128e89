"""What an operator does with a whole store: one file an operation, `main` runs them."""
