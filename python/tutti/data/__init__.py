"""Tables with names and units, and files of them."""
