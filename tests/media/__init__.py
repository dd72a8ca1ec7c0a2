"""ffmpeg, probing, captions, playlists: real encoding, without the shelf."""
