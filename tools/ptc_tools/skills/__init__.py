"""Tools that find, read and run skills: folders with instructions, files and scripts."""
