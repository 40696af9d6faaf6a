"""The audit: models, gaps, predictions."""
