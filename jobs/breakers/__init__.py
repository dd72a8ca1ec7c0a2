"""Circuit breakers, shared by the whole fleet: whoever depends on a service that is down stops calling it for a while.

    @job_type("invoice.charge", breaker="payments")     its jobs stay unclaimed while the breaker is open

    with breaker("payments"):                           raises BreakerOpen instead of calling
        charge(invoice)

`policy` is the state machine, without clock or database; `circuits` keeps it in the database; `guard` is the `with`
statement; `binding` is what claims and the ends of jobs have to do with it.
"""
