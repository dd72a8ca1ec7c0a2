"""Random inputs and random sequences of operations, by Hypothesis."""
