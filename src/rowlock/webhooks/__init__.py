"""Webhooks: the jobs that send signed messages to endpoints of other systems.

When a job reaches a state, the database inserts a delivery, which is a job like any other
(store/functions/webhooks.sql). handler.py is the handler of these jobs, delivery.py sends one and notes how it went,
message.py makes its body, addresses.py says which addresses may be reached, http_post.py makes the one request. People
add and change endpoints at the desk, in desk/webhooks.py. Start with delivery.py. Imported by app; imports flow, desk,
model and store.
"""
