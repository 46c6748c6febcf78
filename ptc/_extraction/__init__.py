"""Extract structured data from many documents: paced, budgeted, durable and resumable."""
