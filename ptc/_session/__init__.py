"""The public sessions: tools called directly, and scripts run, with or without an event loop."""
