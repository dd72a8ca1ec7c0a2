"""What is told to people, and how it gets there."""
