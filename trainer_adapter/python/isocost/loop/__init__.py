"""The iterations over a loader, and which step of the job is next."""
