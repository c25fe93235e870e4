"""What a job is: each rule of a definition has a table row that breaks it."""
