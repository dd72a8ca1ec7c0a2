"""Media, without Django: from an uploaded file to CMAF HLS on disk.

    info = probe.probe(path, limits=Limits(…))                      → SourceInfo, or NotPlayable("a sentence")
    choice = ladder.rungs_for(info.video.width, info.video.height)  → sizes, skipped rungs
    plan = plan.make_plan(info, choice, ffmpeg_build=ffmpeg.build_id(binary), settings=PlanSettings(…))

The plan is plain data (`to_json`, `from_json`, `digest`); with it and the source, any worker can do each of these, in
any order, again, and get the same bytes. All write below one folder per generation:

    encode.encode_chunk(plan, n, source=…, into=folder, ffmpeg_binary=…)  <quality>/init.mp4, seg_00001.m4s …
    encode.encode_audio(plan, n, source=…, into=folder, ffmpeg_binary=…)  audio_<n>_<kbit>k/init.mp4, seg_00001.m4s …
    finish.write_playlists(plan, folder, qualities=…, captions=…)         <each>/playlist.m3u8, master.m3u8
    thumbnails.make(plan, folder, …)                                      poster.jpg, storyboard_….jpg, storyboard.vtt
    subtitles.…                                                           WebVTT from files, tracks, or speech
    verify.verify(plan, folder, files=…, qualities=…)                     raises NotConformant with what is wrong

`encode_…` return `Encoded(frames, files)`, the files with their sizes and SHA-256. All that run ffmpeg take `limits`
(ffmpeg.RunLimits), `on_progress` and `stop`, a callable that is polled: true kills ffmpeg within a second.

A source whose tail is missing: the plan counts the packets that are really there, so most of it is known at once
(SourceInfo.warnings). Should pictures still be missing, a chunk returns fewer `frames` than planned, 0 if it has none.
When all chunks are done and only the last have fewer, publish `plan.shortened(total)`: chunks before the cut keep their
bytes, files after it are not listed, and the sound is encoded again for the new length. A chunk that is short although
a later one has pictures is encoded again with `hold=True`.

Errors: see exceptions.py. Names of files: encode.INIT, encode.segment_name(), finish.PLAYLIST, finish.MASTER.
"""
