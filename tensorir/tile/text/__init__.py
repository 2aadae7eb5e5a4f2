"""The assembly of Tile IR: read front to back, and printed; both follow the syntax that the table's rows state."""
