"""THE PROOF THAT NOTHING IS LOST AND NOTHING IS DONE TWICE: break it and look.

    options ....... what the kit is told, and what it tells its processes
    zygote ........ the mother of the processes: each is one fork away
    child ......... what a process does: creator, dispatcher or worker, with a fault armed in it
    app ........... the job types they run, the provider that counts its calls, the projector
    tables ........ effects and calls, outside the engine's own tables
    processes ..... the processes seen from the kit: started, killed, frozen, collected
    relay ......... a wire to Redis that can be cut
    stage ......... one fault's queue, jobs and processes
    faults ........ the catalogue of faults
    evidence ...... what tables and Redis say afterwards
    invariants .... what must hold: pure functions from evidence to breaches
    clocks ........ a host whose clock is wrong
    controlled .... which protection each control leaves out, and what must break
    controls ...... protections to leave out, to see that their loss is noticed
    kit ........... one run: prepare, try, clean up
    chaos ......... a seeded run of random faults
    campaign ...... all of it, and what it came to; ``aijobs crashkit`` runs it
"""
