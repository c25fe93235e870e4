"""How outputs become rows: once, owned, in the transaction that ends the job."""
