"""`get_tool_response`: stored values and attachments, read again in parts."""
