"""The machine that perfassert runs on: files, tools as processes, a sandbox, pools."""
