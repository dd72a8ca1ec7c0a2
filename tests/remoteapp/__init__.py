"""An app whose job types run on remote workers; only the processes of those tests install it."""
