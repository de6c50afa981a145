"""Tutelage plans what to demonstrate to a learner that has preferences and constraints of its own.

Everything public is a name of this package: `import tutelage as tl`. The names are listed in `__init__.pyi` and loaded
when first used, so that importing the package costs next to nothing.
"""

import lazy_loader

__version__ = "0.3.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
