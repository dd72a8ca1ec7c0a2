"""Uploads that survive lost connections and restarts: tus 1.0 (https://tus.io/protocols/resumable-upload).

`protocol` reads the headers, `arriving` is the file and the right to write to it, `uploads` does what is asked,
`views` speak HTTP.
"""
