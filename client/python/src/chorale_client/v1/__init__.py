"""The messages of the API, made from proto/chorale/v1/chorale.proto."""
