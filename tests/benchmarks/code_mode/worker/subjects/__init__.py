"""One module for each package, with a class `Subject`."""
