"""What several plugins share."""
