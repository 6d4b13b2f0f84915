"""The checks of LoadGen's logs and user.conf: settings, figures, order and times."""
