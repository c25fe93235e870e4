"""What revision 0001 creates, by subject. Closed: a new table comes with a migration of its own.

delivery ... outbox_event, inbox_event
jobs ....... ai_job, its snapshot, output, claims and stream
results .... ai_job_artifact, ai_usage_log, flashcard, quiz_question, learning_analysis
people ..... admission_counter, user_credential, idempotency_record, queue_control, audit_log
"""
