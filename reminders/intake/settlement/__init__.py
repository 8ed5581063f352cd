"""Settlement files of payment providers: read, matched to orders, decided, told.

The map of reading: `cutting` makes pages of a stream of bytes, `formats` makes lines of a page, `stripe` and `mapping`
say which column means what, `config` what all of it is for. Of running: `running` takes the steps, `matching` finds
orders, `comparing` says what has changed, `telling` makes reminders of it, `applying` writes both; `reporting` and
`auditing` look at what is there.
"""
