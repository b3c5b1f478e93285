"""Access to the machine that perfassert runs on: files, tools, a sandbox, process pools."""
