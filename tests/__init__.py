"""The suite. One folder per package of the project; `support/` holds what the tests stand on."""
