"""Judge a matcher: predictions written once, metrics, bootstrap intervals over objects, reference rows.

Two protocols stand beside each other. The *pair protocol* is the paper's: single landmark pairs, three
matched to one unmatched. The *frame protocol* is what users see: whole frame pairs matched one-to-one.
"""
