"""Media, without Django: from an uploaded file to CMAF HLS on disk."""
