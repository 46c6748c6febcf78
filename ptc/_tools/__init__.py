"""What a tool is: declaration, options, results, and sets of tools. Nothing here calls one."""
