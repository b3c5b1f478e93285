"""The kernel description: fields, accesses, launches."""
