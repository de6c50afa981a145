"""The command line: arguments in, tables and files out; no logic."""

import sys


def main() -> None:
    """The entry point: an error is one sentence and an exit code, not a traceback."""
    try:
        # Imported here, so that an interrupt during these imports ends as any other does.
        from tutelage.cli.app import make_app
        from tutelage.cli.printing import complain, complain_of_file
        from tutelage.outcomes import TutelageError

        try:
            make_app()()
        except TutelageError as error:
            complain(str(error))
            sys.exit(error.exit_code)
        except OSError as error:
            complain_of_file(error)
            sys.exit(TutelageError.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
