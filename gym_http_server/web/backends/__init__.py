"""The web side's view of instances: finding and reaching their hosts."""
