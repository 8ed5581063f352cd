"""Settlement files of payment providers: read, matched to orders, decided, told.

The map of reading: `cutting` makes pages of a stream of bytes, `formats` makes lines of a page, `stripe` and `mapping`
say which column means what, `config` what all of it is for.
"""
