"""The measures: one module for each line of the table of targets."""
