"""The messages of the API, generated from proto/chorale/v1/chorale.proto."""
