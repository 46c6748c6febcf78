"""Tools that read and change files below the root."""
