"""The project as a whole: settings, commands, architecture, documentation."""
