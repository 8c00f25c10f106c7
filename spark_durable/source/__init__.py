"""The source: the driver plans exact ranges, executors read them."""
