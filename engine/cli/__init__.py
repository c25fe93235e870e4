"""THE COMMAND LINE: ``aijobs NOUN VERB``, daemons as single words. Nothing else imports it.

    process ...... what the installed command runs: main, and then an end that nothing can put off
    main ......... one call: arguments in, exit code out; the only place where an error becomes a message
    tree ......... every command by name, loaded when it is called, so that ``aijobs --help`` is fast
    options ...... what every command takes, before or after its verb
    session ...... what a command works with: options, output, the application
    application .. finds the AiJobApp behind ``--app`` and gives it the addresses from the command line
    schema ....... whether the database has the tables of this release
    output ....... data on standard output (table, tab-separated or JSON), talk on standard error
    values ....... durations, times, ids and JSON as people write them
    files ........ texts and payloads from files, with every way that a file can be wrong
    daemon ....... signals, readiness and exit codes of processes that run until they are told to stop
    progress ..... bars on a terminal, plain lines elsewhere
    errors ....... mistakes of the command line;  failures ... any error as message, fix and exit code
    commands/ .... one file per noun

Exit codes: 0 done, 1 unexpected, 2 wrong usage, 3 not found, 4 not possible in this state, 5 the job ended
without success, 6 waiting timed out, 7 a check failed, 8 database or Redis unreachable, 9 refused,
130/143 ended by SIGINT/SIGTERM with work handed back.
"""
