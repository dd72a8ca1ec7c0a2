"""A site such as people have, for the pictures: job types with names that say something, and a queue with a past."""
