"""Breaking it: processes killed and frozen, Redis and the database hurt, clocks wrong. What must hold does."""
