"""An installed app whose job types the tests run."""
