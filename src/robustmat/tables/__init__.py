"""The paper's tables: many trainings, one page each."""
