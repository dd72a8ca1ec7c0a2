"""A small Django site with Sprocket in it: our side of the comparison."""
