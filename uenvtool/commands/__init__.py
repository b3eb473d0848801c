"""The use cases: one module or folder each; values in, one result out. Know the parts and the doors."""
