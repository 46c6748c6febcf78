"""Child agents, their kinds, and final answers by schema."""
