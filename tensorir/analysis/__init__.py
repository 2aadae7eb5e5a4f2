"""Facts known of a program before it runs, and which derivatives, masks, storage and materialisation may ask for
them.
"""
